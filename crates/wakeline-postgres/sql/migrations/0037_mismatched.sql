-- Instances that were held back for a mismatch, in the order in which they are retried.

CREATE INDEX flow_lanes_mismatched ON @schema@.flow_lanes (capability_id, lane_id)
    WHERE suspended = 'mismatch';
