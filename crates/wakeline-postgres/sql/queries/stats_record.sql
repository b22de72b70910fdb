-- Writes down what a node counted. Called by: StatsStore::record_stats.
SELECT @schema@.stats_record($1, $2, $3, $4, $5)
