-- How long until each line has something. Called by: FlowStore::sweep_flow.
SELECT line, due_us FROM @schema@.flow_sweep($1)
