echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "'path ' + $PROFILE.AllUsersAllHosts"
