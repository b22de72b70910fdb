-- Removes a node from the running ones.
SELECT @schema@.node_leave($1)
