-- Children of an instance in the order of lists, so that a page reads no more of them than it shows.

CREATE INDEX flow_instances_children ON @schema@.flow_instances (parent, created_at, instance)
    WHERE parent IS NOT NULL;
CREATE INDEX flow_lanes_children ON @schema@.flow_lanes (parent, started_at, instance)
    WHERE phase = 0 AND parent IS NOT NULL;
