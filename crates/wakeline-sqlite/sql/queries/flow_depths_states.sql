-- How many instances there are in each state.
-- Called by: read::depths.
SELECT state, count(*) FROM instances GROUP BY state
