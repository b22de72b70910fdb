-- Returns a page of the children of some instances.
SELECT place, lane, instance, ended FROM @schema@.flow_children($1, $2, $3)
