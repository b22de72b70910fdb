-- Holds an instance back. Called by: FlowAdmin::suspend, FlowAdmin::suspend_turn.
SELECT @schema@.flow_suspend($1, $2, $3, $4, $5)
