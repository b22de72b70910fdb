-- Returns where a read of a partition's log ends that stops at a number of bytes: after the message
-- with which it reaches them, or at p_until. Also returns that number of bytes. Bytes in gaps
-- count, too. p_from < p_until, and there is a message at p_from. A segment counts no more than the
-- size of its body, whatever its ends say: a corrupt one must not use up the share of the next
-- partitions. Reads only.

CREATE OR REPLACE FUNCTION @schema@.log_read_end(
    p_partition bigint, p_from bigint, p_until bigint, p_bytes bigint,
    OUT o_end bigint, OUT o_bytes bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    s record;
    v_base integer;
    v_first integer;
    v_last integer;
    v_size bigint;
BEGIN
    o_end := p_until; o_bytes := 0;
    FOR s IN SELECT y.first_offset, y.len, y.ends, octet_length(y.body) AS size FROM @schema@.segments y
        WHERE y.partition_id = p_partition AND y.first_offset < p_until
            AND y.first_offset >= coalesce((
                SELECT z.first_offset FROM @schema@.segments z
                WHERE z.partition_id = p_partition AND z.first_offset <= p_from
                ORDER BY z.first_offset DESC LIMIT 1), 0)
        ORDER BY y.first_offset
    LOOP
        v_first := greatest(p_from - s.first_offset, 0);
        v_last := least(p_until - s.first_offset, s.len);
        CONTINUE WHEN v_last <= v_first;
        v_base := CASE WHEN v_first > 0 THEN s.ends[v_first] ELSE 0 END;
        v_size := coalesce(least(s.ends[v_last], s.size) - v_base, 0);
        IF o_bytes + v_size < p_bytes THEN
            o_bytes := o_bytes + v_size;
            CONTINUE;
        END IF;
        FOR n IN v_first + 1 .. v_last LOOP
            CONTINUE WHEN n < v_last AND o_bytes + s.ends[n] - v_base < p_bytes;
            o_end := s.first_offset + n;
            o_bytes := o_bytes + coalesce(least(s.ends[n], s.size) - v_base, 0);
            RETURN;
        END LOOP;
    END LOOP;
END
$$;
