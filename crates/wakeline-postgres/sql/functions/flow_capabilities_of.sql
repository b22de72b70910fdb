-- Returns the numbers of a dispatcher's capabilities: the given ones, or all existing ones if the
-- parameter is null. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_capabilities_of(p_caps jsonb) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_caps IS NULL OR p_caps = 'null' THEN
        RETURN ARRAY(SELECT c.capability_id FROM @schema@.flow_capabilities c);
    END IF;
    RETURN ARRAY(SELECT x::integer FROM jsonb_array_elements_text(p_caps) AS x);
END
$$;
