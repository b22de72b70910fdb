-- Installs or removes triggers.
SELECT @schema@.notify_install($1, $2, $3) AS changed
