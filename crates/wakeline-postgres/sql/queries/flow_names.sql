-- The numbers of capabilities, tags or names of activities. Called by: whoever names one that is not known yet.
SELECT name, id FROM @schema@.flow_names($1, $2)
