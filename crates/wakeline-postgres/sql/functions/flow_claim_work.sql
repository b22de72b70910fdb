-- Leases work to the workers of some lines. Rows of kind 0, one per line: code is 2 if other claims
-- have locked available work, else 0; due_us is the time to the line's next work if a request got
-- nothing, or if further is set. Kind 1: work that was leased, with the numbers of the lines and
-- the requests' indexes. p_lines: an array of objects. tags, names: numbers, null for any; owner
-- and session_lease (microseconds), if the worker may claim sessions; requests: objects of key,
-- lease (microseconds) and again (an earlier attempt may have leased something under the key).
-- p_patient: wait briefly for the first work. Lock order: sessions and work, without waiting,
-- except for the first work if p_patient.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_work(p_lines jsonb, p_patient boolean)
RETURNS TABLE (
    kind smallint, code smallint, command integer, due_us bigint,
    ids bigint[], commands integer[], requests integer[], now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    n record;
    t record;
    v_now timestamptz := @schema@.clock();
    v_ids bigint[] := '{}';
    v_commands integer[] := '{}';
    v_requests integer[] := '{}';
BEGIN
    kind := 0;
    FOR n IN
        SELECT x.* FROM ROWS FROM (jsonb_to_recordset(p_lines) AS (
            tags jsonb, names jsonb, owner text, session_lease bigint, requests jsonb,
            further boolean))
            WITH ORDINALITY AS x (tags, names, owner, session_lease, requests, further, ord)
    LOOP
        SELECT x.* INTO t FROM @schema@.flow_claim_work_line(
            @schema@.flow_routes_of(n.tags, n.names), n.owner, n.session_lease, n.requests,
            p_patient, n.further) AS x;
        v_now := t.o_now;
        v_ids := v_ids || t.o_ids; v_requests := v_requests || t.o_requests;
        IF t.o_ids <> '{}' THEN
            v_commands := v_commands || array_fill(n.ord::integer, ARRAY[cardinality(t.o_ids)]);
        END IF;
        now_at := v_now; command := n.ord; code := t.o_code; due_us := t.o_due_us;
        RETURN NEXT;
    END LOOP;
    IF v_ids <> '{}' THEN
        kind := 1; command := NULL; code := NULL; due_us := NULL;
        ids := v_ids; commands := v_commands; requests := v_requests;
        RETURN NEXT;
    END IF;
END
$$;
