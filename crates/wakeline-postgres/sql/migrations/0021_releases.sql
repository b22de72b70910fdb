-- Nodes of several releases at once: which releases installed something here, and the sets of functions
-- that their nodes call. Functions used to live in this schema, one body for all releases; those that
-- only nodes call go now, and each release brings its own (docs/adr/0014-a-function-set-per-release.md).

CREATE TABLE @schema@.releases (
    release integer PRIMARY KEY,
    oldest integer NOT NULL,
    api_checksum text NOT NULL,
    function_set text NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN @schema@.releases.release IS
    'the version as a number: 1.2.3 is 1002003';
COMMENT ON COLUMN @schema@.releases.oldest IS
    'the oldest release that works with the tables as this one left them';
COMMENT ON COLUMN @schema@.releases.api_checksum IS
    'the text of the functions in this schema, of the newest release';

CREATE TABLE @schema@.function_sets (
    checksum text PRIMARY KEY,
    release integer NOT NULL,
    place text,
    installed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN @schema@.function_sets.place IS
    'the schema that holds the functions; NULL: this one, and their names end with the checksum';
COMMENT ON COLUMN @schema@.function_sets.used_at IS
    'when a node said last that it uses the set; one that nobody uses is dropped after a week';

DO $$
DECLARE
    v_function text;
BEGIN
    IF to_regclass('@schema@.function_checksums') IS NULL THEN
        RETURN;
    END IF;
    -- Those that stay are replaced, so that grants on them stay as well.
    FOR v_function IN
        SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
        FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        JOIN @schema@.function_checksums f ON f.name = p.proname
        WHERE p.pronamespace = '@schema@'::regnamespace
          AND p.proname NOT IN ('ack', 'clock', 'emit', 'hook_message_name', 'notify_changes',
              'notify_cursors', 'notify_incoming', 'notify_segments', 'pop')
    LOOP
        EXECUTE 'DROP FUNCTION ' || v_function;
    END LOOP;
    DROP TABLE @schema@.function_checksums;
END
$$;
