-- Children of an instance in the order of lists, so that a page reads no more of them than it shows.

CREATE INDEX instances_children ON instances (parent, created_at, instance) WHERE parent IS NOT NULL;
CREATE INDEX lanes_children ON lanes (parent, started_at, instance) WHERE parent IS NOT NULL;
