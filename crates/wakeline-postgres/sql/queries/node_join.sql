-- Enters a node among the running ones. Called by: HintListener.
SELECT node_id FROM @schema@.node_join($1, $2) AS node_id
