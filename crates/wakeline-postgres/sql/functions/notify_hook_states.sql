-- Trigger on hook_states, once per statement: an endpoint can be served, or pulled from, now or at
-- a known time.

CREATE OR REPLACE FUNCTION @schema@.notify_hook_states() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    PERFORM @schema@.notify_hints('hook', (
        SELECT jsonb_agg(jsonb_build_array(
            CASE WHEN x.endpoint IS NULL THEN to_jsonb('push'::text)
                ELSE jsonb_build_object('pull',
                    'ep_' || substr(@schema@.hook_message_name(x.endpoint), 5)) END,
            @schema@.notify_due_ms(x.due_at, v_now)))
        FROM (
            SELECT CASE WHEN f.pull THEN f.endpoint_id END AS endpoint, min(f.due_at) AS due_at
            FROM fresh f
            WHERE f.due_at < 'infinity' AND f.disabled IS NULL
            GROUP BY 1) x
    ));
    RETURN NULL;
END
$$;
