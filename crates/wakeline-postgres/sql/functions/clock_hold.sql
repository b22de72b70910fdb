-- Moves the store's clock on to where it must be by now, if the machine's was set back. The caller
-- read p_then from it, and measured how many microseconds have passed since, p_passed_us. Returns
-- by how many microseconds it was moved, 0 if that was not needed, and what it shows now. Nodes
-- notice the same step each for themselves, and the first one moves the clock.
-- While the clock is ahead it runs slower by a tenth; if it may have been at p_then, as much is allowed for.
-- Called by: ClockWatch. Lock order: clock_ahead alone.

CREATE OR REPLACE FUNCTION @schema@.clock_hold(
    p_then timestamptz, p_passed_us bigint, OUT moved_us bigint, OUT clock_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    v_passed interval := p_passed_us * interval '1 microsecond';
    v_machine timestamptz;
    v_expected timestamptz;
    v_short interval;
    a @schema@.clock_ahead;
BEGIN
    SELECT x.* INTO a FROM @schema@.clock_ahead x FOR UPDATE;
    v_expected := p_then
        + v_passed * CASE WHEN a.since + a.ahead * 10 <= p_then THEN 1.0 ELSE 0.9 END;
    v_machine := @schema@.machine_clock();
    clock_at := @schema@.clock();
    v_short := v_expected - clock_at;
    moved_us := 0;
    IF v_short > interval '5 seconds' + v_passed / 1000 THEN
        UPDATE @schema@.clock_ahead SET ahead = v_expected - v_machine, since = v_machine;
        moved_us := extract(epoch FROM v_short) * 1000000;
        clock_at := v_expected;
    END IF;
END
$$;
