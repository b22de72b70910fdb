-- Makes one more attempt of a delivery due.
SELECT * FROM @schema@.hook_resend($1, $2, $3, $4, $5, $6)
