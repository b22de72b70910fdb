-- Notes that somebody waits for some outcomes. Called by: FlowReader::watch.
SELECT @schema@.flow_watch($1)
