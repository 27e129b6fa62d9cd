import{h as a}from"./chunk-CMZADIIW.js";import"./chunk-PAWMGJUQ.js";export{a as default};
