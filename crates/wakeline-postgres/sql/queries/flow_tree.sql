-- Returns an instance and all its descendants, parents before children.
SELECT o_instances FROM @schema@.flow_tree($1)
