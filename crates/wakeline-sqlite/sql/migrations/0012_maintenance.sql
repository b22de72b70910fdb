-- What is suspended for the time of a maintenance: one row.

CREATE TABLE maintenance (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    pushes      INTEGER NOT NULL,            -- 0: go through, 1: are held back, 2: those of producers are refused, others held back
    pops_paused INTEGER NOT NULL             -- 1: claims of messages get nothing
) STRICT;
INSERT INTO maintenance (one, pushes, pops_paused) VALUES (1, 0, 0);

ALTER TABLE scheduled ADD COLUMN held INTEGER NOT NULL DEFAULT 0; -- 1: pushed during a maintenance, due since it was accepted
CREATE INDEX scheduled_held ON scheduled (queue_id) WHERE held = 1;
