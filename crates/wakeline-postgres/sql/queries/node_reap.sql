-- Removes dead nodes and returns the others. Called by: the notifier.
SELECT node_id FROM @schema@.node_reap() AS node_id
