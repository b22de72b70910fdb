-- Returns a page of ended instances that have no parent.
SELECT ended_at, instance, parents FROM @schema@.flow_ended_roots($1, $2, $3, $4, $5)
