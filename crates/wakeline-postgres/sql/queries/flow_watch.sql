-- Notes that somebody waits for some outcomes, and reads them. Called by: FlowReader::watch.
SELECT * FROM @schema@.flow_watch($1)
