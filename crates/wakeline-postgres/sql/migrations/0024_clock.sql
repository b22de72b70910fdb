-- By how much the store's clock is ahead of the machine's: more than nothing after the machine's was set
-- back, see the function clock. One row, which is written only then.

CREATE TABLE @schema@.clock_ahead (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ahead interval NOT NULL CHECK (ahead >= '0'),
    -- By the machine's clock: when it was ahead by so much.
    since timestamptz NOT NULL
);
INSERT INTO @schema@.clock_ahead (ahead, since) VALUES ('0', clock_timestamp());
-- Whoever calls push, pop or emit reads the clock, with their own rights.
GRANT SELECT ON @schema@.clock_ahead TO PUBLIC;
