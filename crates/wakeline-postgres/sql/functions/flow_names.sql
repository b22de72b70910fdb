-- Returns the numbers of capabilities (kind 0), tags (kind 1) or activity names (kind 2), which are
-- created if they are missing. Names are never removed, so nodes cache the numbers. Lock order:
-- rows in the order of their names.

CREATE OR REPLACE FUNCTION @schema@.flow_names(p_kind smallint, p_names text[])
RETURNS TABLE (name text, id integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_kind = 0 THEN
        INSERT INTO @schema@.flow_capabilities (name)
        SELECT DISTINCT n COLLATE "C" FROM unnest(p_names) AS n
        WHERE NOT EXISTS (SELECT FROM @schema@.flow_capabilities c WHERE c.name = n)
        ORDER BY 1 ON CONFLICT DO NOTHING;
        RETURN QUERY SELECT c.name, c.capability_id FROM @schema@.flow_capabilities c
        WHERE c.name = ANY (p_names);
    ELSIF p_kind = 1 THEN
        INSERT INTO @schema@.flow_tags (name)
        SELECT DISTINCT n COLLATE "C" FROM unnest(p_names) AS n
        WHERE NOT EXISTS (SELECT FROM @schema@.flow_tags t WHERE t.name = n)
        ORDER BY 1 ON CONFLICT DO NOTHING;
        RETURN QUERY SELECT t.name, t.tag_id FROM @schema@.flow_tags t WHERE t.name = ANY (p_names);
    ELSE
        INSERT INTO @schema@.flow_activity_names (name)
        SELECT DISTINCT n COLLATE "C" FROM unnest(p_names) AS n
        WHERE NOT EXISTS (SELECT FROM @schema@.flow_activity_names a WHERE a.name = n)
        ORDER BY 1 ON CONFLICT DO NOTHING;
        RETURN QUERY SELECT a.name, a.name_id FROM @schema@.flow_activity_names a
        WHERE a.name = ANY (p_names);
    END IF;
END
$$;
