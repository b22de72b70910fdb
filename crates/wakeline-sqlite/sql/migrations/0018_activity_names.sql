-- Work has the name of its activity, so that workers claim only what they have the code for.

-- Names of activities; 0 stands for one that is not known: such work is for any worker.
CREATE TABLE activity_names (
    name_id INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE
) STRICT;

ALTER TABLE work ADD COLUMN name_id INTEGER NOT NULL DEFAULT 0;

DROP INDEX work_ready;
DROP INDEX work_due;
CREATE INDEX work_ready ON work (tag_id, name_id, taker, work_id) WHERE due_at IS NULL;
CREATE INDEX work_due ON work (tag_id, name_id, taker, due_at) WHERE due_at IS NOT NULL;
