-- Returns what a job reads next, in the order of messages and endpoints: of its application's
-- messages, each with the endpoint of the job, or with every endpoint. It reads at most p_rows of
-- these, however many match. o_read: their number; o_more: there may be more; o_place_*: the last
-- one. The matching ones are in o_deliveries with their endpoints, or (kind 1) in o_messages. Reads
-- only.

CREATE OR REPLACE FUNCTION @schema@.hook_job_ahead(
    p_job bigint, p_rows integer,
    OUT o_read integer, OUT o_more boolean, OUT o_place_message uuid, OUT o_place_endpoint uuid,
    OUT o_messages uuid[], OUT o_deliveries bigint[], OUT o_endpoints uuid[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_none uuid := '00000000-0000-0000-0000-000000000000';
    v_last uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_ids uuid[];
    v_found bigint[];
    v_count integer;
    j record;
    m record;
BEGIN
    SELECT k.* INTO j FROM @schema@.hook_jobs k WHERE k.job_no = p_job;
    o_read := 0; o_more := false; o_messages := '{}'; o_deliveries := '{}'; o_endpoints := '{}';
    o_place_message := coalesce(j.place_message, v_none);
    o_place_endpoint := coalesce(j.place_endpoint, v_none);
    IF j.kind = 1 AND j.endpoint_id IS NULL THEN
        RETURN;
    END IF;
    FOR m IN
        SELECT k.message_id, k.created_at,
            (j.event_types = '{}' OR k.event_type = ANY (j.event_types))
            AND (j.since IS NULL OR k.created_at >= j.since)
            AND (j.until IS NULL OR k.created_at < j.until) AS meant
        FROM @schema@.hook_messages k
        WHERE k.application_id = j.application_id AND k.message_id >= o_place_message
            AND (k.message_id > o_place_message OR o_place_endpoint < v_last)
        ORDER BY k.message_id LIMIT p_rows + 1
    LOOP
        -- Messages are stored within a day of the time in their ids, so no matching one follows.
        EXIT WHEN m.created_at - interval '24 hours' >= j.until;
        IF o_read >= p_rows THEN
            o_more := true;
            EXIT;
        END IF;
        IF m.message_id <> o_place_message THEN
            o_place_message := m.message_id; o_place_endpoint := v_none;
        END IF;
        v_count := 0;
        IF m.meant AND j.endpoint_id IS NULL THEN
            SELECT count(*), array_agg(x.endpoint_id ORDER BY x.endpoint_id),
                array_agg(x.delivery_id ORDER BY x.endpoint_id)
            INTO v_count, v_ids, v_found FROM (
                SELECT e.endpoint_id, d.delivery_id FROM @schema@.hook_endpoints e
                LEFT JOIN LATERAL (
                    SELECT d.delivery_id FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = e.endpoint_id AND d.message_id = m.message_id
                    OFFSET 0) d ON true
                WHERE e.application_id = j.application_id AND e.endpoint_id > o_place_endpoint
                ORDER BY e.endpoint_id LIMIT p_rows - o_read) x;
            o_endpoints := o_endpoints || v_ids; o_deliveries := o_deliveries || v_found;
        ELSIF m.meant AND j.endpoint_id > o_place_endpoint THEN
            o_messages := o_messages || m.message_id;
        END IF;
        IF v_count > 0 AND o_read + v_count = p_rows THEN
            -- There may be more endpoints.
            o_read := p_rows; o_more := true; o_place_endpoint := v_ids[v_count];
            EXIT;
        END IF;
        o_read := o_read + greatest(v_count, 1);
        o_place_endpoint := v_last;
    END LOOP;
    IF j.kind <> 1 AND j.endpoint_id IS NOT NULL THEN
        SELECT array_agg(d.delivery_id), array_agg(d.endpoint_id) INTO o_deliveries, o_endpoints
        FROM unnest(o_messages) AS x (id)
        CROSS JOIN LATERAL (
            SELECT d.delivery_id, d.endpoint_id FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = j.endpoint_id AND d.message_id = x.id OFFSET 0) d;
    END IF;
    o_deliveries := coalesce(array_remove(o_deliveries, NULL), '{}');
END
$$;
