-- Children of some instances, a page. Called by: FlowAdmin::delete_instances, delete_matching.
SELECT place, lane, instance, ended FROM @schema@.flow_below($1, $2, $3)
