-- Suspends an instance.
SELECT @schema@.flow_suspend($1, $2, $3, $4, $5)
