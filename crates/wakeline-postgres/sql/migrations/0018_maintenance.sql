-- What is suspended for the time of a maintenance: one row. Pushes and claims read it in the
-- statements that they make anyway; nobody locks it but who changes it.

CREATE TABLE @schema@.maintenance (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    pushes smallint NOT NULL DEFAULT 0 CHECK (pushes BETWEEN 0 AND 2),
    pops_paused boolean NOT NULL DEFAULT false
);
COMMENT ON COLUMN @schema@.maintenance.pushes IS
    '0: go through; 1: are held back; 2: those of producers are refused, others held back';
COMMENT ON COLUMN @schema@.maintenance.pops_paused IS 'claims of messages get nothing';
INSERT INTO @schema@.maintenance DEFAULT VALUES;

ALTER TABLE @schema@.scheduled ADD COLUMN held boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN @schema@.scheduled.held IS
    'pushed during a maintenance: due since it was accepted, and moved once pushes go through';
CREATE INDEX scheduled_held ON @schema@.scheduled (partition_id) WHERE held;
