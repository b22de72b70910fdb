-- Lists ids under which messages wait and that were never started.

-- A lane is made with the place 1 and gets what its start needs before it is written back: only lanes of early
-- messages enter this index.
CREATE INDEX lanes_early ON lanes (instance) WHERE capability_id IS NULL AND next_seq > 1;
