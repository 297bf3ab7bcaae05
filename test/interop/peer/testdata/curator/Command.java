/** What a line on stdin asks for. */
interface Command {
    /** Carries out the line, whose first word is the command's name, and returns the answer. */
    String run(String[] f) throws Exception;
}
