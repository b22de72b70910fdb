-- Removes dead nodes and returns the others.
SELECT node_id FROM @schema@.node_reap() AS node_id
