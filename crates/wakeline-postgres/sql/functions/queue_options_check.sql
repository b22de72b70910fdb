-- Checks options with the names that users use, and returns them by the names of their columns. The
-- limits are those of HTTP (wakeline-http, wire/options.rs). Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.queue_options_check(p_options jsonb)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n record;
    v_columns jsonb := '{}';
    v_flag boolean;
BEGIN
    IF p_options IS NULL OR jsonb_typeof(p_options) <> 'object' THEN
        RAISE EXCEPTION 'options must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR n IN
        WITH known (name, col, kind, low, high) AS (VALUES
            ('leaseTime', 'lease_secs', 'number', 1::numeric, 604800::numeric),
            ('retryLimit', 'retry_limit', 'number', 0, 1000000),
            ('retryDelay', 'retry_delay_ms', 'number', 0, 31622400000),
            ('retryDelayMax', 'retry_delay_ms_max', 'number', 0, 31622400000),
            ('retryBackoff', 'retry_exponential', 'exponential,fixed', NULL, NULL),
            ('deadLetterQueue', 'dead_letters', 'boolean', NULL, NULL),
            ('dlqAfterMaxRetries', 'dead_letters', 'boolean', NULL, NULL),
            ('priority', 'priority', 'number', -2147483648, 2147483647),
            ('delayedProcessing', 'delay_secs', 'number', 0, 31622400),
            ('windowBuffer', 'window_secs', 'number', 0, 31622400),
            ('ordering', 'strict_order', 'strict,relaxed', NULL, NULL),
            ('fencing', 'strict_fencing', 'strict,lenient', NULL, NULL),
            ('dedupWindowSeconds', 'dedup_window_secs', 'number', 0, 31622400),
            ('retryJitterPercent', 'retry_jitter_percent', 'number', 0, 100),
            ('maxSize', 'len_max', 'number', 0, 9007199254740992),
            ('maxPartitionSize', 'partition_len_max', 'number', 0, 9007199254740992),
            ('ttl', 'ttl_secs', 'number', 0, 31622400),
            ('retentionSeconds', 'retention_secs', 'number', 0, 3162240000),
            ('completedRetentionSeconds', 'completed_retention_secs', 'number', 0, 3162240000),
            ('retentionEnabled', 'retention', 'boolean', NULL, NULL),
            ('encryptionEnabled', 'encrypted', 'boolean', NULL, NULL),
            ('maxWaitTimeSeconds', 'wait_secs_max', 'number', 0, 31622400),
            ('lanes', 'lanes', 'number', 0, 1024),
            ('unordered', 'lanes', 'boolean', NULL, NULL),
            ('ledgerRetentionSeconds', 'ledger_secs', 'number', 0, 31622400),
            ('groupIdleSeconds', 'group_idle_secs', 'number', 0, 31622400),
            ('partitionPriorities', 'partition_priorities', 'object', NULL, NULL)
        )
        SELECT e.key, e.value, k.*, (
            SELECT x.name FROM known x WHERE lower(x.name)
                = regexp_replace(lower(e.key), '[^a-z]', '', 'g')) AS near, (
            SELECT string_agg(x.name, ', ') FROM known x) AS all_names
        FROM jsonb_each(p_options) AS e (key, value)
        LEFT JOIN known k ON k.name = e.key
    LOOP
        IF n.name IS NULL THEN
            RAISE EXCEPTION 'unknown option %', n.key USING ERRCODE = 'invalid_parameter_value',
                HINT = coalesce('did you mean ' || n.near || '?', 'known options: ' || n.all_names);
        ELSIF jsonb_typeof(n.value) = 'null' THEN
            CONTINUE;
        ELSIF n.kind LIKE '%,%' THEN
            IF jsonb_typeof(n.value) <> 'string'
                OR n.value #>> '{}' <> ALL (string_to_array(n.kind, ','))
            THEN
                RAISE EXCEPTION 'option % must be one of %, not %', n.key, n.kind, n.value
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            v_columns := v_columns
                || jsonb_build_object(n.col, n.value #>> '{}' = split_part(n.kind, ',', 1));
            CONTINUE;
        ELSIF jsonb_typeof(n.value) <> n.kind THEN
            RAISE EXCEPTION 'option % must be a JSON %, not %', n.key, n.kind, n.value
                USING ERRCODE = 'invalid_parameter_value';
        ELSIF n.kind = 'number' AND ((n.value)::numeric NOT BETWEEN n.low AND n.high
            OR (n.value)::numeric <> trunc((n.value)::numeric))
        THEN
            RAISE EXCEPTION 'option % must be a whole number from % to %, not %', n.key, n.low,
                n.high, n.value USING ERRCODE = 'invalid_parameter_value';
        END IF;
        CONTINUE WHEN n.name IN ('unordered', 'dlqAfterMaxRetries');
        v_columns := v_columns || jsonb_build_object(n.col, CASE WHEN n.kind = 'number'
            THEN to_jsonb(trunc((n.value)::numeric)) ELSE n.value END);
    END LOOP;
    IF (v_columns ->> 'group_idle_secs')::bigint BETWEEN 1 AND 599 THEN
        RAISE EXCEPTION 'option groupIdleSeconds must be 0 or from 600 to 31622400'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (v_columns ->> 'encrypted')::boolean THEN
        RAISE EXCEPTION 'encryption cannot be switched on from SQL'
            USING ERRCODE = 'feature_not_supported',
            HINT = 'switch it on over HTTP, where it is checked that there are keys';
    END IF;
    IF NOT v_columns ? 'dead_letters' AND jsonb_typeof(p_options -> 'dlqAfterMaxRetries') = 'boolean'
    THEN
        v_columns := v_columns
            || jsonb_build_object('dead_letters', p_options -> 'dlqAfterMaxRetries');
    END IF;
    v_flag := nullif(p_options -> 'unordered', 'null')::boolean;
    IF (v_flag AND (v_columns ->> 'lanes')::bigint = 0)
        OR (NOT v_flag AND (v_columns ->> 'lanes')::bigint > 0)
    THEN
        RAISE EXCEPTION 'options unordered and lanes contradict each other'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'leave out one of them';
    ELSIF v_flag IS NOT NULL AND NOT v_columns ? 'lanes' THEN
        v_columns := v_columns || jsonb_build_object('lanes', CASE WHEN v_flag THEN 16 ELSE 0 END);
    END IF;
    IF NOT v_columns ? 'retention' AND greatest((v_columns ->> 'retention_secs')::bigint,
        (v_columns ->> 'completed_retention_secs')::bigint) > 0
    THEN
        v_columns := v_columns || '{"retention": true}';
    END IF;
    FOR n IN SELECT e.key, e.value, count(*) OVER () AS len
        FROM jsonb_each(v_columns -> 'partition_priorities') AS e (key, value)
    LOOP
        IF n.len > 1000 OR octet_length(n.key) NOT BETWEEN 1 AND 255 OR n.key ~ '[[:cntrl:]]'
            OR jsonb_typeof(n.value) <> 'number'
        THEN
            RAISE EXCEPTION 'option partitionPriorities must name up to 1000 partitions with a number each'
                USING ERRCODE = 'invalid_parameter_value';
        ELSIF (n.value)::numeric NOT BETWEEN -2147483648 AND 2147483647
            OR (n.value)::numeric <> trunc((n.value)::numeric)
        THEN
            RAISE EXCEPTION 'the priority of partition % must be a whole number of 32 bits, not %',
                n.key, n.value USING ERRCODE = 'invalid_parameter_value';
        END IF;
        v_columns := jsonb_set(v_columns, ARRAY['partition_priorities', n.key],
            to_jsonb(trunc((n.value)::numeric)));
    END LOOP;
    RETURN v_columns;
END
$$;
