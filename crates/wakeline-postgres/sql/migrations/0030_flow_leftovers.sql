-- Instances and executions are deleted in pieces.
--
-- A deletion removes the rows by which everybody finds an instance (its lane and its row in
-- flow_instances) or an execution, and notes here what is left: the children, which follow, and the
-- rows that hang on the lane's number alone. Whoever deletes goes on with that piece by piece;
-- housekeeping does, once due_at has passed, if nobody else did.

CREATE TABLE @schema@.flow_leftovers (
    leftover_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    deletion uuid NOT NULL,
    lane_id bigint NOT NULL,
    execution bigint,
    parent text COLLATE "C",
    after_lane bigint NOT NULL DEFAULT 0,
    deleted_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL
);
CREATE INDEX flow_leftovers_deletion ON @schema@.flow_leftovers (deletion, leftover_id);
CREATE INDEX flow_leftovers_due ON @schema@.flow_leftovers (due_at);
COMMENT ON TABLE @schema@.flow_leftovers IS
    'lanes and executions that were deleted and still own rows';
COMMENT ON COLUMN @schema@.flow_leftovers.execution IS 'only of this execution; NULL: of the lane';
COMMENT ON COLUMN @schema@.flow_leftovers.parent IS
    'the name of the instance, while children of it may be left that began until deleted_at';
COMMENT ON COLUMN @schema@.flow_leftovers.after_lane IS
    'the children up to this lane are deleted already';

-- Children in the order in which they are deleted.
DROP INDEX @schema@.flow_instances_parent;
CREATE INDEX flow_instances_parent ON @schema@.flow_instances (parent, lane_id)
    WHERE parent IS NOT NULL;
-- Instances that ended and are nobody's children, for deleting old ones.
CREATE INDEX flow_instances_ended_roots ON @schema@.flow_instances (ended_at, instance)
    WHERE ended_at IS NOT NULL AND parent IS NULL;
