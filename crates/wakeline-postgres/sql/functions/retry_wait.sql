-- Returns how long a message waits after its n-th counted failure. The same rule as
-- QueueOptions::after_failure, including its jitter (FNV-1a over the message's transaction id and
-- the number of the failure); waits are limited to a hundred years, so that timestamps stay valid.

CREATE OR REPLACE FUNCTION @schema@.retry_wait(
    p_failures integer, p_txn text, p_queue @schema@.queues)
RETURNS interval
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_wait double precision := p_queue.retry_delay_ms;
    v_ms bigint;
    v_hash bigint := 2166136261;
    v_bytes bytea;
BEGIN
    IF p_queue.retry_exponential THEN
        v_wait := v_wait * power(2::double precision, least(p_failures - 1, 62));
    END IF;
    v_wait := least(v_wait, greatest(p_queue.retry_delay_ms_max, p_queue.retry_delay_ms),
        3155760000000);
    v_ms := v_wait;
    IF p_queue.retry_jitter_percent > 0 AND v_ms > 0 THEN
        v_bytes := convert_to(p_txn, 'UTF8') || set_byte('\x00', 0, least(p_failures, 255));
        FOR i IN 0 .. length(v_bytes) - 1 LOOP
            v_hash := ((v_hash # get_byte(v_bytes, i)) * 16777619) & 4294967295;
        END LOOP;
        v_ms := v_ms - v_ms * least(p_queue.retry_jitter_percent, 100) * (v_hash % 1001) / 100000;
    END IF;
    RETURN make_interval(secs => v_ms / 1000.0);
END
$$;
