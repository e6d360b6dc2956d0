"""Pages are run as doctests; the scripts that draw their figures are not collected."""

collect_ignore_glob = ["figures/*"]
