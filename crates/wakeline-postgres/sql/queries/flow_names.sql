-- The numbers of capabilities or tags. Called by: whoever names one that is not known yet.
SELECT name, id FROM @schema@.flow_names($1, $2)
