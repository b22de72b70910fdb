-- Removes work, leased or not. Returns how much there was. Runs under the lanes' locks. Lock order:
-- work by id.

CREATE OR REPLACE FUNCTION @schema@.flow_work_remove(p_works bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_gone bigint;
BEGIN
    IF p_works = '{}' THEN
        RETURN 0;
    END IF;
    PERFORM FROM @schema@.flow_work w WHERE w.work_id = ANY (p_works)
    ORDER BY w.work_id FOR UPDATE;
    DELETE FROM @schema@.flow_work_bodies b WHERE b.work_id = ANY (p_works);
    WITH gone AS (
        DELETE FROM @schema@.flow_work w WHERE w.work_id = ANY (p_works) RETURNING w.work_id)
    SELECT count(*) INTO v_gone FROM gone;
    RETURN v_gone;
END
$$;
