-- The numbers of a dispatcher's capabilities: those given, or all there are if it is null.
-- Called by: claims and born leases of turns. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_capabilities_of(p_caps jsonb) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_caps IS NULL OR p_caps = 'null' THEN
        RETURN ARRAY(SELECT c.capability_id FROM @schema@.flow_capabilities c);
    END IF;
    RETURN ARRAY(SELECT x::integer FROM jsonb_array_elements_text(p_caps) AS x);
END
$$;
