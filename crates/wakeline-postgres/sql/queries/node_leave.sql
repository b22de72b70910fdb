-- Takes a node out of the running ones. Called by: HintListener.
SELECT @schema@.node_leave($1)
