-- An instance and all below it, parents before children. Called by: FlowReader::tree.
SELECT o_instances FROM @schema@.flow_tree($1)
