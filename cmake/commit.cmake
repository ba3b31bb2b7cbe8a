# cmake -D ROOT=. -D FILE=commit.c -P commit.cmake: FILE says of which commit the sources are, with -dirty where they differ from it. It is
# written only when that changed, so that nothing else is built anew. Sources without git are of an unknown commit.
execute_process(COMMAND git --no-optional-locks -C "${ROOT}" describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
    set(commit unknown)
endif()
set(text "const char main_commit[] = \"${commit}\";\n")
if(EXISTS "${FILE}")
    file(READ "${FILE}" before)
endif()
if(NOT "${before}" STREQUAL "${text}")
    file(WRITE "${FILE}" "${text}")
endif()
