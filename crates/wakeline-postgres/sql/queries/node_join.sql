-- Adds a node to the running ones.
SELECT node_id FROM @schema@.node_join($1, $2) AS node_id
