-- Advances the store's clock to where it must be by now, if the machine's clock was set back. The
-- caller has read p_then from the store's clock and measured that p_passed_us microseconds have
-- passed since. Returns by how many microseconds the clock was advanced (0 if that was not
-- necessary) and its current value. Each node detects the same step separately, and the first one
-- advances the clock. While the clock is ahead it runs slower by a tenth; if it may have been ahead
-- at p_then, this difference is allowed for. Lock order: only clock_ahead.

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
