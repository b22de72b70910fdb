-- The numbers of a worker's tags: those given, or all there are, none included, if it is null.
-- Called by: claims and born leases of work. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_tags_of(p_tags jsonb) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_tags IS NULL OR p_tags = 'null' THEN
        RETURN 0 || ARRAY(SELECT t.tag_id FROM @schema@.flow_tags t);
    END IF;
    RETURN ARRAY(SELECT x::integer FROM jsonb_array_elements_text(p_tags) AS x);
END
$$;
