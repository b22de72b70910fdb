-- Stores the statistics that a node has counted.
SELECT @schema@.stats_record($1, $2, $3, $4, $5)
