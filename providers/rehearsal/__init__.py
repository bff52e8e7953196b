"""The rehearsal clouds: servers on this machine that speak the real clouds' wire protocols."""
