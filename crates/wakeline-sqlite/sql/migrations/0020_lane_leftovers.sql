-- Instances and executions are deleted in pieces.

-- Lanes and executions that were deleted and still own rows. A deletion removes the rows by which everybody
-- finds an instance (its lane and its row in instances) or an execution, and notes here what is left: the
-- children, which follow, and the rows that hang on the lane's number alone. Whoever deletes goes on with that
-- piece by piece; housekeeping does, once due_at has passed, if nobody else did.
CREATE TABLE lane_leftovers (
    leftover_id INTEGER PRIMARY KEY,
    deletion    BLOB NOT NULL,
    lane_id     INTEGER NOT NULL,
    execution   INTEGER,                     -- only of this execution; NULL: of the lane
    parent      TEXT,                        -- the name of the instance, while children of it may be left
    after_lane  INTEGER NOT NULL DEFAULT 0,  -- the children up to this lane are deleted already
    deleted_at  INTEGER NOT NULL,            -- children that began later are those of another instance
    due_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX lane_leftovers_deletion ON lane_leftovers (deletion, leftover_id);
CREATE INDEX lane_leftovers_due ON lane_leftovers (due_at);
