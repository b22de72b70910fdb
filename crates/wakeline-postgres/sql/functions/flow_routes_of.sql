-- Returns the routes of a worker: each of its tags with each name that it knows, and with none.
-- p_tags, p_names: numbers, null for all existing ones. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_routes_of(p_tags jsonb, p_names jsonb) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_tags bigint[];
    v_names bigint[];
BEGIN
    IF p_tags IS NULL OR p_tags = 'null' THEN
        v_tags := 0 || ARRAY(SELECT t.tag_id FROM @schema@.flow_tags t);
    ELSE
        v_tags := ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(p_tags) AS x);
    END IF;
    IF p_names IS NULL OR p_names = 'null' THEN
        v_names := 0 || ARRAY(SELECT n.name_id FROM @schema@.flow_activity_names n);
    ELSE
        v_names := 0 || ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(p_names) AS x);
    END IF;
    RETURN ARRAY(SELECT t << 32 | n FROM unnest(v_tags) AS t CROSS JOIN unnest(v_names) AS n);
END
$$;
