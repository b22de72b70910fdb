-- A clock that tests can move: the true one plus a shift. Only in schemas that were made with
-- it; production code never creates this table, and never runs this file.

CREATE TABLE IF NOT EXISTS @schema@.test_clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    shift interval NOT NULL DEFAULT '0'
);
INSERT INTO @schema@.test_clock DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION @schema@.machine_clock() RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN clock_timestamp() + (SELECT shift FROM @schema@.test_clock);
END
$$;
