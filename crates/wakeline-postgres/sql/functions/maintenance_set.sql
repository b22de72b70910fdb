-- Changes what is suspended; NULL leaves a part unchanged. Returns whether that changed something,
-- and the state before and after. Pushes and claims that began before may still use the old state;
-- they lock nothing here. Lock order: only the row of maintenance.

CREATE OR REPLACE FUNCTION @schema@.maintenance_set(p_pushes smallint, p_pops_paused boolean)
RETURNS TABLE (
    changed boolean, pushes_before smallint, paused_before boolean, pushes_now smallint,
    paused_now boolean)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
BEGIN
    SELECT m.pushes, m.pops_paused INTO pushes_before, paused_before
    FROM @schema@.maintenance m WHERE m.one FOR UPDATE;
    pushes_now := coalesce(p_pushes, pushes_before);
    paused_now := coalesce(p_pops_paused, paused_before);
    changed := (pushes_now, paused_now) <> (pushes_before, paused_before);
    IF changed THEN
        UPDATE @schema@.maintenance m SET pushes = pushes_now, pops_paused = paused_now
        WHERE m.one;
    END IF;
    RETURN NEXT;
END
$$;
